"""One module for each stage of the algorithm; every ``Bug`` bound in one of them is in the zoo."""
