"""Degradation: how far the transistors of a batch of instances have shifted, epoch by epoch."""
