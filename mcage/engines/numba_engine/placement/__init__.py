"""Where registers live on a fault map, and which events follow."""
