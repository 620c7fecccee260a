// Stand-in: the real header has nothing that the recorder calls.
