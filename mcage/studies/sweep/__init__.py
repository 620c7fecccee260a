"""The sweep: lives of register-file slices, as a study that a campaign runs."""
