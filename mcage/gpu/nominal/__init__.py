"""GPUs without variation: a row of a CSV file in, a row with the results out."""
