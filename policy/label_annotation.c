#include "policy/label_annotation.h"

#include <string.h>

#include "base/bytes.h"

void stated_label_done(struct stated_label *stated)
{
    json_decref(stated->json);
    stated->json = NULL;
}

/* One spelling alone, so that equal labels are equal bytes, and nobody reads another label than the next reader. */
static struct result check_spelling(const struct label *label, struct bytes text, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(2 * LABEL_ANNOTATION_MAX);

    TRY(label_write(&canonical, label, err));
    if (bytes_equal(buffer_bytes(&canonical), text)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the annotation " LABEL_ANNOTATION " is not canonical; write %.180s",
                   buffer_text(&canonical));
}

static struct result read(struct bytes text, struct stated_label *stated, struct error *err)
{
    struct error why = {0};

    if (!json_read(text, LABEL_ANNOTATION_MAX, &stated->json, &why).ok || !label_read(stated->json, &stated->label, &why).ok)
        return failure(err, why.kind, "the annotation " LABEL_ANNOTATION " is no label: %.180s", why.message);
    return check_spelling(&stated->label, text, err);
}

struct result label_annotation_read(const json_t *value, struct stated_label *stated_out, struct error *err)
{
    OWNED_STATED_LABEL stated = {.json = NULL};

    if (!json_is_string(value)) return failure(err, ERROR_INVALID, "the annotation " LABEL_ANNOTATION " is not a text");
    TRY(read((struct bytes){(const uint8_t *)json_string_value(value), json_string_length(value)}, &stated, err));
    *stated_out = stated;
    stated.json = NULL;
    return SUCCESS;
}

struct result label_annotation_of(const json_t *manifest, struct stated_label *stated_out, struct error *err)
{
    const json_t *value = json_object_get(json_object_get(manifest, "annotations"), LABEL_ANNOTATION);

    if (value != NULL) return label_annotation_read(value, stated_out, err);
    *stated_out = (struct stated_label){.json = NULL};
    return SUCCESS;
}

struct result label_annotation_of_text(struct bytes manifest, size_t bytes_max, struct stated_label *stated_out,
                                       struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read_any_number(manifest, bytes_max, &json, err));
    return label_annotation_of(json, stated_out, err);
}
