/*
 * cmd/sijil_keyd_settings.h -- the command line of sijil-keyd. What is wrong with it ends the program.
 */
#pragma once

#include "cmd/passphrase.h"
#include "keyd/server.h"

enum { EXIT_USAGE = 2 };

struct keyd_settings {
    const char *directory, *socket, *origin;
    const char *region, *main_key; /* NULL: not given */
    struct region_keyd_options place;
    struct passphrase_source passphrase;
    uint64_t group;
    uint64_t destroyed;        /* the version, 0 for none */
    unsigned witness_patience; /* seconds, 0: the default */
    bool has_group, init, add_version, add_log_key, force, log_restored, one_officer;
    bool *has_keys; /* set when the key ring and its token are open */
    struct server_options server;
    struct hsm_options token; /* module NULL: none */
};

void keyd_settings_read(int argc, char **argv, struct keyd_settings *settings);
