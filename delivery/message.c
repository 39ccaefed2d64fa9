#include "delivery/message.h"

#include <inttypes.h>
#include <string.h>

#include "audit/format/export.h"
#include "base/json.h"

static bool hides(unsigned hidden, enum sink_field field)
{
    return (hidden >> field & 1) != 0;
}

/* "acme/models/digits#sha256:..." without what follows the name. */
static bool cut_details(const json_t *resources)
{
    size_t i;
    json_t *one;

    json_array_foreach (resources, i, one) {
        const char *name = json_text_of(one, "name");
        if (name == NULL) continue;
        if (json_object_set_new(one, "name", json_stringn(name, strcspn(name, "#"))) != 0) return false;
    }
    return true;
}

/* The text of an alarm is a detail, and has the pseudonym of its actor. */
static bool cut_alarm(const json_t *event)
{
    json_t *finding = json_object_get(event, "finding_info");

    return finding == NULL || json_object_set_new(finding, "title", json_string("alarm.raise")) == 0;
}

static void drop_regions(const json_t *resources)
{
    size_t i;
    json_t *one;

    json_array_foreach (resources, i, one) (void)json_object_del(one, "data");
}

/* The leaf itself has all that may be left out, so it goes with anything else. */
static bool redact(json_t *event, unsigned hidden)
{
    const json_t *resources = json_object_get(event, "resources");
    const bool is_alarm = json_object_get(event, "finding_info") != NULL;
    const bool cuts = hides(hidden, SINK_HIDES_DETAIL) || (is_alarm && hides(hidden, SINK_HIDES_ACTOR));

    if (hidden != 0) (void)json_object_del(event, "raw_data");
    if (hides(hidden, SINK_HIDES_ACTOR)) {
        (void)json_object_del(event, "actor");
        (void)json_object_del(event, "user");
        (void)json_object_del(event, "src_endpoint");
        (void)json_object_del(event, "http_request");
    }
    if (hides(hidden, SINK_HIDES_RULES)) (void)json_object_del(event, "status_detail");
    if (hides(hidden, SINK_HIDES_REQUEST)) (void)json_object_del(json_object_get(event, "api"), "request");
    if (hides(hidden, SINK_HIDES_REGION)) drop_regions(resources);
    if ((cuts || hides(hidden, SINK_HIDES_RESOURCE)) && !cut_alarm(event)) return false;
    if (cuts && !cut_details(resources)) return false;
    if (hides(hidden, SINK_HIDES_RESOURCE)) (void)json_object_del(event, "resources");
    return true;
}

static bool name_log(json_t *event, const struct delivery_event *from)
{
    json_t *metadata = json_object_get(event, "metadata");
    json_t *uid = json_sprintf("%s/%" PRIu64, from->origin, from->leaf->sequence);

    return json_object_set_new(metadata, "uid", uid) == 0 &&
           json_object_set_new(metadata, "log_name", json_string(from->origin)) == 0;
}

struct result delivery_message_write(const struct delivery_event *event, struct buffer *line, struct error *err)
{
    enum sink_class class = SINK_CLASS_COUNT;
    OWNED_JSON payload = NULL;

    if (!sink_class_find(event->leaf->class_uid / 100, &class))
        return failure(err, ERROR_INVALID, "an event of an unknown class can't be delivered");
    if (event->payload.length > 0) TRY(json_read_any_number(event->payload, EXPORT_PAYLOAD_MAX, &payload, err));
    OWNED_JSON value = export_ocsf(event->leaf, event->text, payload);
    if (value == NULL || !name_log(value, event) || !redact(value, event->sink->hides[class]) || !export_ocsf_fit(value))
        return failure(err, ERROR_NO_MEMORY, "no memory for an event that is delivered");
    return json_write_canonical(line, value, err);
}

struct result delivery_withheld_write(uint64_t first, uint64_t last, struct buffer *line, struct error *err)
{
    return buffer_format(line, err, "{\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"withheld\":true}", first, last);
}
