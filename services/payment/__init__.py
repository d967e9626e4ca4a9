"""The payment service: takes money for orders through a gateway, and gives it back."""
