/*
 * gateway/background/introspect.h -- a thread for each issuer whose opaque tokens are introspected (RFC 7662).
 *
 * It takes questions from authz/introspection.h, and asks one at a time: an issuer that hangs costs its own tokens 5 seconds each, and others nothing.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct introspect;

/** Reads the file of the setting introspection_file, and makes gateway->introspection, which introspect_free() frees. Without a file nothing is made. */
RESULT introspect_start(struct gateway *gateway, struct introspect **introspect_out, struct error *err);
void introspect_free(struct introspect *introspect);
DEFINE_OWNED(introspect);
