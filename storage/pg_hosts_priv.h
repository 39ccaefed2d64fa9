/*
 * storage/pg_hosts_priv.h -- several hosts in a connection string: a primary and its standbys (docs/database.md).
 *
 * libpq tries them in their order, and goes on from one that refuses. From one that does not answer it goes on only in its own blocking call, which we
 * don't use; so the next attempt begins with the next host.
 */
#pragma once

#define PG_HOST_LISTS 3
/** The lists of hosts of a connection string, in another order. */
struct pg_hosts {
    const char *keywords[PG_HOST_LISTS];
    char *lists[PG_HOST_LISTS]; /* NULL: as in the connection string */
};
unsigned pg_hosts_count(const char *conninfo);
/** Without memory for it, libpq uses the order of the connection string. */
void pg_hosts_turn(const char *conninfo, unsigned count, unsigned first, struct pg_hosts *hosts_out);
void pg_hosts_done(struct pg_hosts *hosts);
