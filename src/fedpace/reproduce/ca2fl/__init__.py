"""CA2FL: accuracy, staleness, and how much staleness costs."""
