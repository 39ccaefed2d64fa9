/*
 * tests/support/tls_peer.h -- a server to call (tests/support/tls_peer.py), and a resolver whose answers a test sets.
 *
 * A program that links this has its own getaddrinfo(), which replaces libc's, also for libcurl.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct tls_peer {
    char folder[48]; /* "/tmp/sijil_tls_XXXXXX" */
    char ca_file[64], other_file[64], client_file[64], client_key[64];
    unsigned main_port, tls12_port, mutual_port, proxy_port;
    pid_t process;
    int input; /* the server lives as long as this is open */
};

/** Any failure fails the test at once. */
void tls_peer_start(struct tls_peer *peer);
void tls_peer_stop(struct tls_peer *peer);
/** Counts the requests so far whose line in the log has the text: "127.0.0.2 ", " proxy CONNECT ". */
unsigned tls_peer_requests(const struct tls_peer *peer, const char *text);

/**
 * Sets the addresses of any name from now on, separated by ' '. After a ';' follow the answers to later look-ups. "": no
 * address.
 */
void resolver_says(const char *answers);
unsigned resolver_questions(void);
