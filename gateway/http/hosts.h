/*
 * gateway/http/hosts.h -- the host names that clients may use for this registry.
 *
 * A challenge names the token endpoint with the host name that the client used, because the client can reach that name and has a
 * certificate for it. The rule: the answer repeats only names of the operator's list. Any other name is answered with public_url.
 */
#pragma once

#include "base/bytes.h"
#include "base/config.h"

#define HOSTS_URL_SIZE (CONFIG_TEXT_SIZE + sizeof "https://:65535")

/**
 * `allowed` is a list of words with spaces or commas between them: "host", "host:port", or "host:*" for every port; an IPv6 address
 * stands in brackets. ERROR_INVALID names the first word of another form.
 */
RESULT hosts_check(const char *allowed, struct error *err);
/** Whether it is https://host or https://host:port with a well-formed name or address. */
bool hosts_is_url(const char *url);
/**
 * The next name of a list that hosts_check() accepted, without brackets and port, for a certificate; start with *at = 0.
 * False at its end.
 */
bool hosts_next(const char *allowed, size_t *at, struct bytes *name_out);

/** The names of one gateway. */
struct hosts {
    const char *public_url; /* "https://host[:port]": always allowed */
    const char *allowed;    /* as above; a list that hosts_check() refuses allows nothing */
};
/** "https://host[:port]" of the Host header (RFC 9110, 7.2) if it is allowed, in lower case and without ":443"; else public_url. */
void hosts_url(const struct hosts *hosts, const char *host, char url_out[HOSTS_URL_SIZE]);
