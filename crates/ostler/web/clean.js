// clean
