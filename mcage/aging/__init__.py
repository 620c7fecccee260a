"""Aging: threshold shift, delay, growth of faults, and the life that they end."""
