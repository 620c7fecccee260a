"""How many SMs run a kernel, and which (Chen et al., DAC 2014)."""
