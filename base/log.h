/*
 * base/log.h -- the operator's log: one JSON object in each line, on standard error.
 *
 * gateway/, keyd/, runner/serve/, runner/schedule/, embedded/ and cmd/ log. registry/ logs only failures in its background work; all other folders return
 * errors. A line never has a secret, a token or personal data. The audit log, and not this log, records who did what.
 */
#pragma once

#include "base/result.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

/** Lines below this level are not written. The initial level is LOG_INFO. */
void log_set_level(enum log_level level);
bool log_level_find(const char *name, enum log_level *level_out);

/**
 * log_line(LOG_INFO, "listening", "address", "127.0.0.1:8443", NULL): pairs of key and text value, then NULL. A
 * value of NULL leaves its key out. Lines are cut at LOG_LINE_MAX bytes and written with one write(2).
 */
void log_line(enum log_level level, const char *what, ...) __attribute__((sentinel));
/** Writes a line of the level LOG_ERROR with the kind and message of an error. */
void log_error(const char *what, const struct error *err);
#define LOG_LINE_MAX 4096
