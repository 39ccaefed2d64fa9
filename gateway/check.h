/*
 * gateway/check.h -- sijild --check-config: finds problems of the configuration; each message names the setting and a solution.
 */
#pragma once

#include "base/problems.h"
#include "gateway/settings/settings.h"

/** Checks that not everybody may read a password in `database`; `path` is the file of the settings. */
void check_secrecy(const char *path, const struct settings *settings, struct problems *problems);
/** Checks the parts without which no start succeeds: key and certificate belong together, and client_ca holds authorities. */
RESULT check_start(const struct settings *settings, struct error *err);
/** Checks key, certificate, its names and its time, and the authorities of clients. Connects to nothing. */
void check_files(const struct settings *settings, struct problems *problems);
/**
 * Checks database, sijil-keyd and regions as a gateway uses them. Must run as the gateway's user. Changes nothing, except that it makes in
 * an empty region's folder what a start makes there.
 */
void check_peers(const struct settings *settings, struct problems *problems);
