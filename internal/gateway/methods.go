package gateway

// Methods is the table of all methods.
func Methods() []Method {
	return nil
}
