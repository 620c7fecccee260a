"""Faults in registers, followed to the output of a program: `mcage inject`."""
