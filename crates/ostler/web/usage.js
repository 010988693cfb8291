// usage
