// disk
