"""The tabs: layout and events. One file each, and one for the part of the Datastore tab where the model writes."""
