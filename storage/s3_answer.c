#include "storage/s3_answer.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/driver.h"

enum {
    DEPTH_MAX = 8,
    NAME_SIZE = 64, /* "CompleteMultipartUploadResult" */
};

/* An element that ended. */
struct element {
    unsigned depth;            /* 1 is the outermost element */
    const char *name, *parent; /* without prefix; "" for the parent of the outermost element */
    const char *text;          /* its text, without that of inner elements */
};
typedef struct result element_visit(void *context, const struct element *element, struct error *err);

struct reading {
    XML_Parser parser;
    unsigned depth;
    char names[DEPTH_MAX + 1][NAME_SIZE];
    char text[S3_TEXT_SIZE];
    size_t length;
    element_visit *visit;
    void *context;
    struct result outcome;
    struct error *err;
};

static void stop(struct reading *reading, const char *why)
{
    if (reading->outcome.ok) reading->outcome = failure(reading->err, ERROR_UNAVAILABLE, "the object store's answer %s", why);
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static void on_start(void *context, const char *name, const char **attributes)
{
    struct reading *reading = context;
    const char *colon = strrchr(name, ':');
    const char *local = colon == NULL ? name : colon + 1;

    (void)attributes;
    if (!reading->outcome.ok) return;
    if (reading->depth == DEPTH_MAX) {
        stop(reading, "is too deep");
        return;
    }
    if (strlen(local) >= NAME_SIZE) {
        stop(reading, "has an element with a long name");
        return;
    }
    memcpy(reading->names[++reading->depth], local, strlen(local) + 1);
    reading->length = 0;
}

static void on_text(void *context, const char *text, int length)
{
    struct reading *reading = context;

    if (!reading->outcome.ok || length <= 0) return;
    if ((size_t)length >= sizeof reading->text - reading->length) {
        stop(reading, "has a text that is too long");
        return;
    }
    memcpy(reading->text + reading->length, text, (size_t)length);
    reading->length += (size_t)length;
}

static void on_end(void *context, const char *name)
{
    struct reading *reading = context;

    (void)name;
    if (!reading->outcome.ok) return;
    reading->text[reading->length] = '\0';
    const struct element element = {.depth = reading->depth,
                                    .name = reading->names[reading->depth],
                                    .parent = reading->names[reading->depth - 1],
                                    .text = reading->text};
    reading->outcome = reading->visit(reading->context, &element, reading->err);
    if (!reading->outcome.ok) (void)XML_StopParser(reading->parser, XML_FALSE);
    reading->depth--;
    reading->length = 0;
}

/* A document type can define entities, which expand a small answer into a large one. */
static void on_document_type(void *context, const char *name, const char *system, const char *public, int has_subset)
{
    (void)name, (void)system, (void)public, (void)has_subset;
    stop(context, "has a document type");
}

static void *allocate(size_t size)
{
    return memory_resize(NULL, size);
}

static struct result parse(struct reading *reading, struct bytes xml)
{
    const int length = (int)xml.length;
    const enum XML_Status status = XML_Parse(reading->parser, (const char *)xml.data, length, XML_TRUE);

    if (!reading->outcome.ok) return reading->outcome;
    if (status == XML_STATUS_OK) return SUCCESS;
    const enum XML_Error error = XML_GetErrorCode(reading->parser);
    if (error == XML_ERROR_NO_MEMORY) return failure(reading->err, ERROR_NO_MEMORY, "no memory for an object store's answer");
    return failure(reading->err, ERROR_UNAVAILABLE, "the object store's answer is no XML: %.60s", XML_ErrorString(error));
}

static struct result read_answer(struct bytes xml, element_visit *visit, void *context, struct error *err)
{
    static const XML_Memory_Handling_Suite memory = {allocate, memory_resize, free};
    struct reading reading = {.visit = visit, .context = context, .outcome = SUCCESS, .err = err};

    if (xml.length > S3_ANSWER_MAX) return failure(err, ERROR_UNAVAILABLE, "the object store's answer is too long");
    reading.parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    if (reading.parser == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an object store's answer");
    XML_SetUserData(reading.parser, &reading);
    XML_SetElementHandler(reading.parser, on_start, on_end);
    XML_SetCharacterDataHandler(reading.parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading.parser, on_document_type);
    const struct result result = parse(&reading, xml);
    XML_ParserFree(reading.parser);
    return result;
}

/* ---- Errors ---- */

/* For logs and people: drops everything except printable ASCII. */
static void copy_plain(char *destination, size_t size, const char *text)
{
    size_t length = 0;

    for (; *text != '\0' && length + 1 < size; text++)
        if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\') destination[length++] = *text;
    destination[length] = '\0';
}

static struct result take_error(void *context, const struct element *element, struct error *err)
{
    struct s3_error *error_body = context;

    (void)err;
    if (element->depth != 2 || strcmp(element->parent, "Error") != 0) return SUCCESS;
    if (strcmp(element->name, "Code") == 0) copy_plain(error_body->code, sizeof error_body->code, element->text);
    if (strcmp(element->name, "Message") == 0) copy_plain(error_body->message, sizeof error_body->message, element->text);
    return SUCCESS;
}

void s3_answer_error(struct bytes xml, struct s3_error *error_out)
{
    struct s3_error error_body = {0};
    struct error ignored = {0};

    (void)read_answer(xml, take_error, &error_body, &ignored).ok;
    *error_out = error_body;
}

/* ---- Short answers ---- */

struct location {
    char name[S3_LOCATION_SIZE];
    bool is_said, is_answer;
};

static struct result take_location(void *context, const struct element *element, struct error *err)
{
    struct location *location = context;

    if (strcmp(element->name, "LocationConstraint") != 0) return SUCCESS;
    location->is_answer = true;
    if (element->text[0] == '\0' || location->is_said) return SUCCESS;
    location->is_said = true;
    if (strspn(element->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != strlen(element->text) ||
        !text_copy(location->name, sizeof location->name, element->text))
        return failure(err, ERROR_UNAVAILABLE, "the object store's answer names a location in letters that no location has");
    return SUCCESS;
}

struct result s3_answer_location(struct bytes xml, char location_out[S3_LOCATION_SIZE], struct error *err)
{
    struct location location = {.name = ""};

    TRY(read_answer(xml, take_location, &location, err));
    if (!location.is_answer) return failure(err, ERROR_UNAVAILABLE, "the object store's answer names no location");
    if (!location.is_said) (void)text_copy(location.name, sizeof location.name, "us-east-1");
    if (strcmp(location.name, "EU") == 0) (void)text_copy(location.name, sizeof location.name, "eu-west-1");
    memcpy(location_out, location.name, sizeof location.name);
    return SUCCESS;
}

static struct result take_upload_id(void *context, const struct element *element, struct error *err)
{
    struct buffer *id = context;

    if (strcmp(element->name, "UploadId") != 0 || strcmp(element->parent, "InitiateMultipartUploadResult") != 0) return SUCCESS;
    buffer_clear(id);
    return buffer_add_text(id, element->text, err);
}

struct result s3_answer_upload_id(struct bytes xml, struct buffer *id, struct error *err)
{
    struct buffer OWNED_BUFFER found = BUFFER(S3_TEXT_SIZE);

    TRY(read_answer(xml, take_upload_id, &found, err));
    if (found.length == 0) return failure(err, ERROR_UNAVAILABLE, "the object store's answer has no upload id");
    return buffer_add(id, found.data, found.length, err);
}

static struct result take_completed(void *context, const struct element *element, struct error *err)
{
    (void)err;
    if (element->depth == 1) *(bool *)context = strcmp(element->name, "CompleteMultipartUploadResult") == 0;
    return SUCCESS;
}

struct result s3_answer_completed(struct bytes xml, struct error *err)
{
    bool is_complete = false;

    TRY(read_answer(xml, take_completed, &is_complete, err));
    if (!is_complete) return failure(err, ERROR_UNAVAILABLE, "the object store does not say that the upload is complete");
    return SUCCESS;
}

/* ---- Rules of a bucket ---- */

/* A rule ends at depth 2. What it does, and where, may stand in any order before that. */
struct ruling {
    const char *prefix;
    struct driver_rules found;
    char destination[S3_TEXT_SIZE], below[S3_TEXT_SIZE];
    const char *effect; /* of the rule at hand; NULL: none on objects */
    bool is_enabled, is_answer;
};

static bool is_text(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

/* Two prefixes have objects in common if one begins with the other. */
static bool overlap(const char *a, const char *b)
{
    const size_t a_length = strlen(a), b_length = strlen(b);

    return strncmp(a, b, a_length < b_length ? a_length : b_length) == 0;
}

static void end_rule(struct ruling *ruling)
{
    const bool is_in_copies = ruling->destination[0] != '\0';

    if (ruling->is_enabled && (ruling->effect != NULL || is_in_copies) && overlap(ruling->below, ruling->prefix) &&
        ruling->found.told == RULES_NONE) {
        char plain[sizeof ruling->found.what - 16];
        ruling->found.told = RULES_SOME;
        copy_plain(plain, sizeof plain, is_in_copies ? ruling->destination : ruling->effect);
        (void)snprintf(ruling->found.what, sizeof ruling->found.what, "%s%s", is_in_copies ? "to " : "", plain);
    }
    ruling->destination[0] = ruling->below[0] = '\0';
    ruling->effect = NULL;
    ruling->is_enabled = false;
}

static void take_effect(struct ruling *ruling, const struct element *element)
{
    const bool is_end = is_text(element->name, "Days") || is_text(element->name, "Date");

    if (is_end && is_text(element->parent, "Expiration")) ruling->effect = "objects are removed";
    if (element->depth == 3 && is_text(element->name, "Transition") && ruling->effect == NULL)
        ruling->effect = "objects are moved to another class";
    if (is_text(element->name, "Bucket") && is_text(element->parent, "Destination"))
        (void)text_copy(ruling->destination, sizeof ruling->destination, element->text);
    if (is_text(element->name, "Prefix")) (void)text_copy(ruling->below, sizeof ruling->below, element->text);
    if (element->depth == 3 && is_text(element->name, "Status")) ruling->is_enabled = is_text(element->text, "Enabled");
}

static struct result take_rule(void *context, const struct element *element, struct error *err)
{
    struct ruling *ruling = context;

    (void)err;
    if (element->depth == 2 && is_text(element->name, "Status") && !is_text(element->text, "Suspended")) {
        ruling->found.told = RULES_SOME;
        (void)snprintf(ruling->found.what, sizeof ruling->found.what, "older versions are kept");
    } else if (element->depth == 2 && is_text(element->name, "Rule")) end_rule(ruling);
    else if (element->depth > 2) take_effect(ruling, element);
    if (element->depth == 1)
        ruling->is_answer = is_text(element->name, "ReplicationConfiguration") ||
                            is_text(element->name, "LifecycleConfiguration") || is_text(element->name, "VersioningConfiguration");
    return SUCCESS;
}

struct result s3_answer_rules(struct bytes xml, const char *prefix, struct driver_rules *rules_out, struct error *err)
{
    struct ruling ruling = {.prefix = prefix, .found = {.told = RULES_NONE}};

    TRY(read_answer(xml, take_rule, &ruling, err));
    if (!ruling.is_answer) return failure(err, ERROR_UNAVAILABLE, "the object store's answer has no rules of a bucket");
    *rules_out = ruling.found;
    return SUCCESS;
}

/* ---- Listings ---- */

struct page {
    s3_listed_visit *visit;
    void *context;
    struct buffer *next;
    struct s3_listed listed; /* the one that is being read */
    bool has_key, has_size, is_truncated, is_answer;
};

static struct result take_member(struct page *page, const struct element *element, struct error *err)
{
    struct s3_listed *listed = &page->listed;

    if (strcmp(element->name, "Key") == 0) {
        page->has_key = text_copy(listed->key, sizeof listed->key, element->text);
        if (!page->has_key) return failure(err, ERROR_UNAVAILABLE, "the object store's answer has a key that is too long");
    } else if (strcmp(element->name, "Size") == 0) {
        page->has_size = text_to_u64(bytes_of_text(element->text), INT64_MAX, &listed->size_bytes);
    } else if (strcmp(element->name, "LastModified") == 0 && !clock_parse(bytes_of_text(element->text), &listed->modified_ms)) {
        return failure(err, ERROR_UNAVAILABLE, "the object store's answer has a time of another form");
    }
    return SUCCESS;
}

static struct result take_object(struct page *page, struct error *err)
{
    if (!page->has_key || !page->has_size)
        return failure(err, ERROR_UNAVAILABLE, "the object store's answer has an object without key or size");
    const struct result result = page->visit(page->context, &page->listed, err);
    page->has_key = page->has_size = false;
    page->listed = (struct s3_listed){.size_bytes = 0};
    return result;
}

static struct result take_listed(void *context, const struct element *element, struct error *err)
{
    struct page *page = context;

    if (element->depth == 3 && strcmp(element->parent, "Contents") == 0) return take_member(page, element, err);
    if (element->depth == 2 && strcmp(element->name, "Contents") == 0) return take_object(page, err);
    if (element->depth == 2 && strcmp(element->name, "IsTruncated") == 0) page->is_truncated = strcmp(element->text, "true") == 0;
    if (element->depth == 2 && strcmp(element->name, "NextContinuationToken") == 0) {
        buffer_clear(page->next);
        return buffer_add_text(page->next, element->text, err);
    }
    if (element->depth == 1) page->is_answer = strcmp(element->name, "ListBucketResult") == 0;
    return SUCCESS;
}

struct result s3_answer_page(struct bytes xml, s3_listed_visit *visit, void *context, struct buffer *next, struct error *err)
{
    struct page page = {.visit = visit, .context = context, .next = next};

    buffer_clear(next);
    TRY(read_answer(xml, take_listed, &page, err));
    if (!page.is_answer) return failure(err, ERROR_UNAVAILABLE, "the object store's answer is no listing");
    if (!page.is_truncated) buffer_clear(next);
    if (page.is_truncated && next->length == 0)
        return failure(err, ERROR_UNAVAILABLE, "the object store's answer has more pages but does not say where");
    return SUCCESS;
}
