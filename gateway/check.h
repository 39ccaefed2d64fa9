/*
 * gateway/check.h -- sijild --check-config: what is wrong with the configuration, each with the setting and the way out.
 */
#pragma once

#include "base/problems.h"
#include "gateway/settings/settings.h"

/** That not everybody may read a password in `database`; `path` is the file of the settings. */
void check_secrecy(const char *path, const struct settings *settings, struct problems *problems);
/** Of that, what no start gets past: key and certificate belong together, and the authorities of clients are such. */
RESULT check_start(const struct settings *settings, struct error *err);
/** Key, certificate, its names and its time, authorities of clients. Connects to nothing. */
void check_files(const struct settings *settings, struct problems *problems);
/**
 * Database, sijil-keyd and regions, as a gateway would use them: to be run as the gateway's user. Changes nothing but what a start
 * makes in an empty folder of its own.
 */
void check_peers(const struct settings *settings, struct problems *problems);
