"""Windows around any code, and whole programs under meters."""
