/*
 * gateway/http/hosts.h -- the names that clients call this registry by.
 *
 * A challenge names the place of tokens with the name that the client used, because that is the one it can reach and has a
 * certificate for. The rule: only a name of the operator's list comes back. A client that used any other is sent to public_url.
 */
#pragma once

#include "base/bytes.h"
#include "base/config.h"

#define HOSTS_URL_SIZE (CONFIG_TEXT_SIZE + sizeof "https://:65535")

/**
 * `allowed` is words, with blanks or commas between them: "host", "host:port", or "host:*" for every port; an IPv6 address stands
 * in brackets. ERROR_INVALID names the first that is none of these.
 */
RESULT hosts_check(const char *allowed, struct error *err);
/** Is it https://host or https://host:port, of a name or address that can be one? */
bool hosts_is_url(const char *url);
/** The next name of a list that hosts_check() took, without brackets and port, for a certificate; start with *at = 0. False at its end. */
bool hosts_next(const char *allowed, size_t *at, struct bytes *name_out);

/** What a request is answered under. */
struct hosts {
    const char *public_url; /* "https://host[:port]": always allowed */
    const char *allowed;    /* as above; words that hosts_check() refuses allow nothing */
};
/** "https://host[:port]" of the Host header (RFC 9110, 7.2) if it is allowed, in lower case and without ":443"; else public_url. */
void hosts_url(const struct hosts *hosts, const char *host, char url_out[HOSTS_URL_SIZE]);
