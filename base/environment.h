/*
 * base/environment.h -- what a server keeps of the environment that it was started with: what it names, and nothing else.
 *
 * Whoever starts it, root's shell say, may have secrets there, and a process that was taken over would have them, too.
 * Before there is a second thread.
 */
#pragma once

/**
 * Drops every variable that `names` (NULL-terminated) does not have, and wipes the memory that it stood in, which
 * /proc/PID/environ shows. A name that ends in '*' stands for all that begin so.
 */
void environment_keep(const char *const *names);
/** What the C library and those who check certificates look at: language, time zone, where authorities are. */
extern const char *const environment_of_servers[];
