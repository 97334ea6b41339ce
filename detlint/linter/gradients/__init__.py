"""Can a gradient flow here? Most operators that race do so in their backward pass only."""
