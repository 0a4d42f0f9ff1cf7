"""Should this be served with speculation: with which arm, which K at which load, what it saves."""
