"""What the models cost: counts, time, memory, beside other libraries with the same weights."""
