/*
 * authz/issuer_documents.h -- reads what an issuer publishes about itself: its metadata, and its keys.
 *
 * Everything here is foreign text: at most ISSUER_DOCUMENT_MAX bytes, without duplicate members. Metadata counts only if it names exactly the issuer for
 * which it was asked (OpenID Connect Discovery 1.0, 4.3; RFC 8414, 3.3), or one issuer could publish the keys of another.
 */
#pragma once

#include <jansson.h>

#include "authz/issuer.h"

#define ISSUER_DOCUMENT_MAX  262144
#define ISSUER_KEYS_URL_SIZE 512
#define ISSUER_REPORT_MAX    16384 /* characters; 64 keys of 200 */
#define ISSUER_SHOWN_KEYS    64    /* of a set; a report does not have the others */

struct issuer_metadata {
    char keys_url[ISSUER_KEYS_URL_SIZE]; /* jwks_uri */
};

enum { ISSUER_METADATA_URLS = 2 };
/**
 * Where the metadata may be: number 0 is the place of OpenID Connect (behind the path of the issuer), 1 that of RFC 8414 (before it). ERROR_NO_MEMORY.
 */
RESULT issuer_metadata_url(const char *issuer_url, unsigned number, struct buffer *url, struct error *err);

/** Whether a URL can be that of a key set: as that of an issuer, but it may have a query. */
bool issuer_keys_url_is_valid(const char *url);

/** ERROR_INVALID says what is wrong; ERROR_LIMIT; ERROR_NO_MEMORY. */
RESULT issuer_metadata_read(struct bytes text, const char *issuer_url, struct issuer_metadata *metadata_out, struct error *err);

/**
 * Appends the keys that are usable for these algorithms (bits of enum jose_algorithm) as a key set in one canonical spelling, sorted by kid: the same
 * keys give the same text. *shown_out gets a list with an object for each key of the set, for people: what it is, and whether and why it is not used.
 * ERROR_INVALID if the set breaks a rule, has a private key, or has no usable key; then *shown_out is set, too, as far as the set could be read.
 */
RESULT issuer_keys_read(struct bytes text, unsigned algorithms, struct buffer *jwks, json_t **shown_out, struct error *err);
