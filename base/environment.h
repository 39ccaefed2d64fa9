/*
 * base/environment.h -- reduces the environment of a server to the variables that it names.
 *
 * The environment of the parent process, such as root's shell, may hold secrets, and an attacker that takes over the server
 * could read them. Call it before there is a second thread.
 */
#pragma once

/**
 * Removes every variable that is not in `names` (NULL-terminated) and wipes its memory, which /proc/PID/environ shows. A
 * name that ends in '*' stands for all names with that prefix.
 */
void environment_keep(const char *const *names);
/** Variables of the C library and of the TLS libraries: language, time zone, files of certificate authorities. */
extern const char *const environment_of_servers[];
