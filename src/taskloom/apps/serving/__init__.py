"""What the local servers share: where they listen, and who may ask them."""
