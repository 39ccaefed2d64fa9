/*
 * tests/support/s3_peer.h -- an object store for tests: tests/support/s3_server.py, or a real one that the environment names
 * (SIJIL_S3_ENDPOINT, _BUCKET, _LOCATION, _KEY_FILE, _CA_FILE), as script/interop does.
 */
#pragma once

#include <sys/types.h>

#include "storage/driver_s3.h"
#include "tests/support/database.h"

struct s3_peer {
    char folder[48]; /* "/tmp/sijil_s3_XXXXXX" */
    char endpoint[64], key_file[64], ca_file[64], prefix[32];
    bool is_real;
    pid_t process;
    int input; /* the server lives as long as this is open */
    struct database *database;
    struct driver_s3_options options; /* small parts and segments, few and quick tries; views of the other members */
};

/** Any failure fails the test at once. */
void s3_peer_start(struct s3_peer *peer);
void s3_peer_stop(struct s3_peer *peer);
/** A new driver, as in another process. */
struct driver *s3_peer_driver(const struct s3_peer *peer);

/** Sets what fails from the next request on, as a plan of s3_server.py: s3_peer_plan(&peer, "cut", "PUT", 0, 1). */
void s3_peer_plan(const struct s3_peer *peer, const char *how, const char *only, unsigned skip, unsigned count);
void s3_peer_heal(const struct s3_peer *peer);
/** The bucket is so from now on: members of a plan of s3_server.py, as JSON. */
void s3_peer_say(const struct s3_peer *peer, const char *members);
/** The bucket names this location from now on. */
void s3_peer_move(const struct s3_peer *peer, const char *location);
/** Counts: requests so far that begin with the text ("PUT /"), objects, and open uploads with bytes. Not for a real store. */
unsigned s3_peer_requests(const struct s3_peer *peer, const char *beginning);
void s3_peer_left(const struct s3_peer *peer, unsigned *objects_out, unsigned *uploads_out);
/** Rows in the list of parts. */
unsigned s3_peer_rows(const struct s3_peer *peer);
