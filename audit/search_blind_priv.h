/*
 * audit/search_blind_priv.h -- addresses, networks and countries of clients, which only a key finds in the index of searches.
 *
 * Each year of the log has a key of its own: that of the subject "YYYY" of the issuer "sijil:search". sijil-keyd made it, and the database has
 * it wrapped, like the keys of persons. So a copy of the database without keyd tells no address, and after the key of a year is destroyed
 * no address of that year is found.
 */
#pragma once

#include "audit/query_priv.h"
#include "audit/search.h"
#include "audit/tally_priv.h"

#define BLIND_ISSUER     "sijil:search"
#define BLIND_VALUES_MAX 72 /* of an event: address and network, a country for each target, the networks of a burst */
#define BLIND_TEXT_SIZE  TALLY_NETWORK_SIZE

/** The values of one event, opened. They are personal: wipe them. */
struct blind_values {
    size_t count;
    struct blind_value {
        enum search_field field;
        char text[BLIND_TEXT_SIZE];
    } values[BLIND_VALUES_MAX];
};

/** The year of a time, in UTC; 1970 to 9999. */
int blind_year(int64_t wall_ms);
/** The key of a year; ERROR_NOT_FOUND if it has none. `makes`: then it gets one. */
RESULT blind_key_open(struct keyd_client *keyd, struct pg *pg, int year, bool makes, struct secret **key_out, struct error *err)
    __attribute__((nonnull));
int64_t blind_key_of(const struct secret *key, enum search_field field, const char *text) __attribute__((nonnull));
/** The countries of facts that were read before, by the digest of the facts. Thousands of events share few facts. */
struct country_memo;
struct country_memo *country_memo_new(void); /* NULL: no memory */
void country_memo_free(struct country_memo *memo);
DEFINE_OWNED(country_memo);

struct blind_reader {
    struct payload_opener opener;
    struct country_memo *memo; /* may be NULL */
};
/**
 * Opens the payload of an event that was read, and reads its values, and the country of its facts (audit_page_load_facts() comes before). An
 * event whose payload is erased or damaged has no values.
 */
RESULT blind_values_of(struct audit_page *page, size_t index, const struct leaf *leaf, const struct blind_reader *reader,
                       struct blind_values *values_out, struct error *err) __attribute__((nonnull));
bool blind_values_have(const struct blind_values *values, enum search_field field, const char *text) __attribute__((nonnull));
/** "192.0.2.7" in its shortest form, and its network. False: it is no address. */
bool blind_address(const char *text, char address_out[BLIND_TEXT_SIZE], char network_out[BLIND_TEXT_SIZE])
    __attribute__((nonnull));
