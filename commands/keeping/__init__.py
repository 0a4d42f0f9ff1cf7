"""What is kept: take results in, look after the warehouse, list runs and say what people think of them."""
