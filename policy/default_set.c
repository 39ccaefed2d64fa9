/* The first policy set of a registry on a single machine; approvers replace it. */
#include <string.h>

#include "base/clock.h"
#include "policy/set.h"

#define DEFAULT_SET_BYTES_MAX (16 * 1024) /* the text below and its few names */
#define DAY_MS                ((int64_t)86400 * 1000)
#define YEAR_MS               (365 * DAY_MS)

#define STORING "\"ingest\",\"mount\",\"replicate\",\"migrate\",\"cache\",\"backup\",\"restore\",\"key-wrap\""
#define PLACING STORING ",\"metadata\",\"log\""
#define READING "\"read\",\"export\",\"train\""
#define HEALTH  "\"when\":{\"subjects_any\":[\"health\"]},"
#define LAW     ",\"basis\":[{\"instrument\":\"Federal Law 2/2019\",\"article\":\"13\",\"verified\":\"secondary\"}]}"

/* Parameters: effective from, review by (ten characters), country of the region. */
static const char policy_text[] =
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{"
    "\"id\":\"registry-default\",\"version\":1,\"scope\":[\"**\"],\"title\":\"What a fresh registry starts with\","
    "\"disclaimer\":\"To be edited by your security and legal teams. Not legal advice.\","
    "\"effective_from\":\"%s\",\"review_by\":\"%.10s\"},"
    "\"closed\":true,\"labels\":{\"class\":\"confidential\"},\"rules\":["
    "{\"id\":\"R-STORE-HOME\",\"effect\":\"require\",\"ops\":[" PLACING "],\"target\":{\"geo_within\":[\"%.2s\"]},"
    "\"message\":\"This registry keeps everything in the country of its region.\"},"
    "{\"id\":\"H-STORE-AE\",\"effect\":\"require\",\"ops\":[" PLACING "]," HEALTH "\"target\":{\"geo_within\":[\"AE\"]},"
    "\"message\":\"Health information must be stored and processed inside the State.\"" LAW ","
    "{\"id\":\"H-KEY-AE\",\"effect\":\"require\",\"ops\":[" STORING "]," HEALTH
    "\"target\":{\"key_geo_within\":[\"AE\"],\"key_control_in\":[\"customer-hsm\",\"customer-soft\"]},"
    "\"message\":\"Keys for health data stay in the State under customer control.\"},"
    "{\"id\":\"H-READ-AE\",\"effect\":\"require\",\"ops\":[" READING "]," HEALTH
    "\"target\":{\"geo_within\":[\"AE\"],\"min_assurance\":2},"
    "\"message\":\"Reading health data needs a client that is proven to be inside the State: an officer lists its "
    "network in the policy set.\"" LAW ","
    "{\"id\":\"R-PERMIT\",\"effect\":\"permit\",\"ops\":[" PLACING "," READING ",\"promote\"],"
    "\"when\":{\"class_at_most\":\"sensitive\"}}]}";

static struct result write_policy(const struct policy_default_options *options, struct buffer *text, struct error *err)
{
    char from[CLOCK_TEXT_SIZE], review[CLOCK_TEXT_SIZE];

    clock_format(options->now_ms - DAY_MS, from); /* so the policy stays in force if the clock is set back a little */
    clock_format(options->now_ms + YEAR_MS, review);
    TRY(buffer_add_u8(text, '[', err));
    TRY(buffer_format(text, err, policy_text, from, review, options->geo == NULL ? "AE" : options->geo));
    return buffer_add_u8(text, ']', err);
}

static struct result write_region(const struct policy_default_options *options, struct buffer *text, struct error *err)
{
    const char *geo = options->geo == NULL ? "AE" : options->geo;
    const char *name = options->operator_name == NULL ? "operator" : options->operator_name;

    TRY(buffer_add_u8(text, '{', err));
    TRY(json_write_string(text, bytes_of_text(options->region), err));
    TRY(buffer_format(text, err,
                      ":{\"attrs\":[],\"geo\":\"%.6s\",\"key\":{\"control\":\"customer-soft\",\"geo\":\"%.6s\","
                      "\"ring\":\"local\"},\"location_evidence\":\"statement\",\"operator\":{\"name\":",
                      geo, geo));
    TRY(json_write_string(text, bytes_of_text(name), err));
    return buffer_format(text, err, "},\"regimes\":[%s],\"site\":\"main\"}}", strncmp(geo, "AE", 2) == 0 ? "\"AE-FED\"" : "");
}

static struct result write_network(const struct policy_default_options *options, struct buffer *text, struct error *err)
{
    TRY(buffer_add_u8(text, '[', err));
    if (options->network != NULL) {
        TRY(buffer_add_text(text, "{\"cidr\":", err));
        TRY(json_write_string(text, bytes_of_text(options->network), err));
        TRY(buffer_format(text, err, ",\"facts\":{\"assurance\":2,\"geo\":\"%.6s\",\"recipient\":\"same-controller\"}}",
                          options->geo == NULL ? "AE" : options->geo));
    }
    return buffer_add_u8(text, ']', err);
}

typedef RESULT write_part(const struct policy_default_options *options, struct buffer *text, struct error *err);

static struct result read_part(write_part *write, const struct policy_default_options *options, json_t **json_out,
                               struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DEFAULT_SET_BYTES_MAX);

    TRY(write(options, &text, err));
    return json_read(buffer_bytes(&text), DEFAULT_SET_BYTES_MAX, json_out, err);
}

struct result policy_default_set(const struct policy_default_options *options, struct buffer *payload, struct error *err)
{
    OWNED_JSON policies = NULL;
    OWNED_JSON regions = NULL;
    OWNED_JSON networks = NULL;
    struct policy_set_parts parts = {.epoch = options->epoch};

    TRY(read_part(write_policy, options, &policies, err));
    TRY(read_part(write_region, options, &regions, err));
    TRY(read_part(write_network, options, &networks, err));
    parts.policies = policies;
    parts.regions = regions;
    parts.networks = networks;
    return policy_set_compose(&parts, payload, err);
}
