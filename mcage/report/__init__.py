"""From files of results to numbers and tables that a paper can print."""
