#include "audit/search_blind_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/query_priv.h"
#include "audit/subject_priv.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/network.h"
#include "crypto/hmac.h"

#define FACTS_TEXT_MAX ((size_t)32 * 1024) /* migrations/0037_decision_facts.sql */

int blind_year(int64_t wall_ms)
{
    const time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (wall_ms < 0 || gmtime_r(&seconds, &tm) == NULL) return 1970;
    return tm.tm_year + 1900 > 9999 ? 9999 : tm.tm_year + 1900;
}

struct result blind_key_open(struct keyd_client *keyd, struct pg *pg, int year, bool makes, struct secret **key_out,
                             struct error *err)
{
    char text[12]; /* an int in decimal */

    (void)snprintf(text, sizeof text, "%04d", year);
    return subject_key_find(keyd, pg, (const char *const[2]){BLIND_ISSUER, text}, makes, key_out, err);
}

int64_t blind_key_of(const struct secret *key, enum search_field field, const char *text)
{
    uint8_t mac[HMAC_SIZE];
    char message[32 + BLIND_TEXT_SIZE]; /* label, name of the field, value */
    const int length = snprintf(message, sizeof message, "sijil-blind-v1:%s:%s", search_field_name(field), text);

    hmac_sha256(secret_bytes(key),
                (struct bytes){(const uint8_t *)message, (size_t)length < sizeof message ? (size_t)length : sizeof message - 1},
                mac);
    secret_wipe(message, sizeof message);
    return (int64_t)load_u64(mac);
}

bool blind_address(const char *text, char address_out[BLIND_TEXT_SIZE], char network_out[BLIND_TEXT_SIZE])
{
    struct network network;

    if (!network_of_address(text, &network)) return false;
    network_write_address(&network, address_out);
    network_widen(&network, SEARCH_NETWORK_IPV4, SEARCH_NETWORK_IPV6);
    network_write(&network, network_out);
    return true;
}

bool blind_values_have(const struct blind_values *values, enum search_field field, const char *text)
{
    for (size_t i = 0; i < values->count; i++)
        if (values->values[i].field == field && strcmp(values->values[i].text, text) == 0) return true;
    return false;
}

static void add(struct blind_values *values, enum search_field field, const char *text)
{
    if (text[0] == '\0' || values->count == BLIND_VALUES_MAX || blind_values_have(values, field, text)) return;
    struct blind_value *value = &values->values[values->count++];
    value->field = field;
    (void)snprintf(value->text, sizeof value->text, "%s", text);
}

/* A client of a local socket has the address "unix". */
static void add_address(struct blind_values *values, const char *text)
{
    char address[BLIND_TEXT_SIZE], network[BLIND_TEXT_SIZE];

    if (text == NULL) return;
    if (!blind_address(text, address, network)) {
        add(values, SEARCH_ADDRESS, text);
        return;
    }
    add(values, SEARCH_ADDRESS, address);
    add(values, SEARCH_NETWORK, network);
}

static void add_payload(struct blind_values *values, const json_t *payload)
{
    const json_t *rows = json_object_get(payload, "rows");

    add_address(values, json_text_of(payload, "address"));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *network = json_text_of(json_array_get(rows, i), "network");
        if (network != NULL) add(values, SEARCH_NETWORK, network);
    }
}

/* Facts of a client decide these operations; facts of a region decide the others (OP_OF_CLIENTS). */
static bool is_of_client(const char *operation)
{
    return operation != NULL &&
           (strcmp(operation, "read") == 0 || strcmp(operation, "stat") == 0 || strcmp(operation, "list") == 0);
}

static void add_country_of(struct blind_values *values, const json_t *entry)
{
    const json_t *operations = json_object_get(entry, "operations");
    char country[BLIND_TEXT_SIZE];

    for (size_t i = 0; i < json_array_size(operations); i++) {
        const json_t *operation = json_array_get(operations, i);
        const char *geo = json_text_of(json_object_get(operation, "target"), "geo");
        if (geo == NULL || !is_of_client(json_text_of(operation, "op"))) continue;
        (void)snprintf(country, sizeof country, "%.*s", (int)strcspn(geo, "/"), geo);
        add(values, SEARCH_COUNTRY, country);
    }
}

static struct result countries_of(struct bytes text, struct blind_values *countries, struct error *err)
{
    OWNED_JSON facts = NULL;

    countries->count = 0;
    TRY(json_read(text, FACTS_TEXT_MAX, &facts, err));
    const json_t *judged = json_object_get(facts, "judged");
    for (size_t k = 0; k < json_array_size(judged); k++) add_country_of(countries, json_array_get(judged, k));
    return SUCCESS;
}

#define MEMO_ROWS 256

struct country_memo {
    struct memo_row {
        bool is_set;
        uint8_t digest[LEAF_FACTS_DIGEST];
        struct blind_values countries;
    } rows[MEMO_ROWS];
};

struct country_memo *country_memo_new(void)
{
    return memory_zeroed(1, sizeof(struct country_memo));
}

void country_memo_free(struct country_memo *memo)
{
    free(memo);
}

/* The text of sound facts has this digest, so the countries follow from the digest. */
static struct result remember(struct memo_row *row, struct bytes digest, struct bytes text, struct error *err)
{
    if (row->is_set && bytes_equal(digest, (struct bytes){row->digest, sizeof row->digest})) return SUCCESS;
    row->is_set = false;
    TRY(countries_of(text, &row->countries, err));
    memcpy(row->digest, digest.data, sizeof row->digest);
    row->is_set = true;
    return SUCCESS;
}

static struct result add_countries(struct blind_values *values, const struct audit_page *page, size_t index,
                                   struct country_memo *memo, struct error *err)
{
    struct memo_row own = {.is_set = false};
    struct bytes text;

    for (size_t i = 0; i < audit_page_facts_count(page, index); i++) {
        const struct bytes digest = audit_page_facts_digest(page, index, i);
        struct memo_row *row = memo == NULL ? &own : &memo->rows[digest.data[0] % MEMO_ROWS];
        if (audit_page_facts(page, index, i, &text) != FACTS_SOUND) continue;
        TRY(remember(row, digest, text, err));
        for (size_t k = 0; k < row->countries.count; k++) add(values, SEARCH_COUNTRY, row->countries.values[k].text);
    }
    return SUCCESS;
}

static struct result read_payload(struct bytes text, struct blind_values *values, struct error *err)
{
    OWNED_JSON payload = NULL;
    const struct result read = json_read(text, TALLY_TEXT_MAX, &payload, err);

    if (!read.ok) return err->kind == ERROR_NO_MEMORY ? read : SUCCESS; /* a faulty gateway wrote it */
    add_payload(values, payload);
    return SUCCESS;
}

struct result blind_values_of(struct audit_page *page, size_t index, const struct leaf *leaf, const struct blind_reader *reader,
                              struct blind_values *values_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(TALLY_TEXT_MAX);

    values_out->count = 0;
    if (!audit_page_is_readable(page, index)) return SUCCESS;
    const struct result opened = audit_page_payload_of(page, index, leaf, &reader->opener, &text, err);
    if (!opened.ok && err->kind != ERROR_CORRUPT) return opened;
    if (!opened.ok || text.length == 0) return SUCCESS; /* damaged or erased: the verifier counts it */
    const struct result read = read_payload(buffer_bytes(&text), values_out, err);
    secret_wipe(text.data, text.length);
    TRY(read);
    return add_countries(values_out, page, index, reader->memo, err);
}
