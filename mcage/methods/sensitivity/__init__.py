"""Which assumption matters: a quantity of one case against the constants that it rests on."""
