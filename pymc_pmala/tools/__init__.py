"""What a modeler looks at beside the draws."""
