"""A trace under a technique, made ready for the engines: windows, schedules, what writes leave."""
