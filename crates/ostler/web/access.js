// access
