// socket
