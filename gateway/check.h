/*
 * gateway/check.h -- sijild --check-config: finds problems of the configuration; each message names the setting and a solution.
 */
#pragma once

#include "base/problems.h"
#include "gateway/settings/settings.h"

/** Reports a problem if `database` has a password and every user may read the file `path` of the settings. */
void check_secrecy(const char *path, const struct settings *settings, struct problems *problems);
/** Checks the parts that every start needs: key and certificate belong together, and client_ca holds authorities. */
RESULT check_start(const struct settings *settings, struct error *err);
/** Checks key, certificate, its names and its time, and the authorities of clients. Connects to nothing. */
void check_files(const struct settings *settings, struct problems *problems);
/**
 * Checks database, sijil-keyd and regions as a gateway uses them. Must run as the gateway's user. It changes one thing only: in the empty
 * folder of a region it makes the same subfolders as a start.
 */
void check_peers(const struct settings *settings, struct problems *problems);
