/* An object store's answers: accepted values are within their bounds, and have only allowed letters. */
#include <assert.h>
#include <string.h>

#include "storage/driver.h"
#include "storage/s3_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct result look(void *context, const struct s3_listed *listed, struct error *err)
{
    assert(strlen(listed->key) < S3_KEY_SIZE && listed->size_bytes <= INT64_MAX);
    ++*(unsigned *)context;
    if (*(unsigned *)context > 100) return failure(err, ERROR_CONFLICT, "enough");
    return SUCCESS;
}

static void look_at_page(struct bytes xml)
{
    struct buffer OWNED_BUFFER next = BUFFER(S3_TEXT_SIZE);
    struct error err = {0};
    unsigned count = 0;

    if (s3_answer_page(xml, look, &count, &next, &err).ok) assert(next.length < S3_TEXT_SIZE);
    else assert(err.message[0] != '\0' && (err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_CONFLICT));
}

static void look_at_location(struct bytes xml)
{
    char location[S3_LOCATION_SIZE];
    struct error err = {0};

    if (!s3_answer_location(xml, location, &err).ok) return;
    const size_t length = strlen(location);
    assert(length > 0 && length < sizeof location);
    for (size_t i = 0; i < length; i++) assert(location[i] > ' ' && location[i] <= '~');
}

static void look_at_rules(struct bytes xml)
{
    struct driver_rules rules;
    struct error err = {0};

    if (!s3_answer_rules(xml, "models/", &rules, &err).ok) {
        assert(err.kind == ERROR_UNAVAILABLE);
        return;
    }
    assert(rules.told != RULES_NOT_TOLD && strlen(rules.what) < sizeof rules.what);
    assert((rules.told == RULES_SOME) == (rules.what[0] != '\0'));
    for (const char *at = rules.what; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~');
}

/* An object in place of the mark. */
static void look_at_mark(struct bytes content)
{
    char mark[DRIVER_MARK_SIZE];

    driver_mark_read(content, mark);
    assert(strcmp(mark, "?") == 0 ||
           (strlen(mark) == DRIVER_MARK_SIZE - 1 && strspn(mark, "0123456789abcdef") == DRIVER_MARK_SIZE - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER id = BUFFER(S3_TEXT_SIZE);
    const struct bytes xml = {data, size};
    struct s3_error error_body;
    struct error err = {0};

    look_at_page(xml);
    look_at_location(xml);
    look_at_rules(xml);
    look_at_mark(xml);
    if (s3_answer_upload_id(xml, &id, &err).ok) assert(id.length > 0);
    (void)s3_answer_completed(xml, &err).ok;
    s3_answer_error(xml, &error_body);
    assert(strlen(error_body.code) < sizeof error_body.code && strlen(error_body.message) < sizeof error_body.message);
    for (const char *at = error_body.message; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~' && *at != '"');
    return 0;
}
