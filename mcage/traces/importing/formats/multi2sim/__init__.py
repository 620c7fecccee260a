"""Multi2Sim: the ISA text of its emulator, and the trace of its timing model."""
