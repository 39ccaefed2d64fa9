#include "policy/label.h"

#include <assert.h>
#include <string.h>

#include "policy/compiled_priv.h"
#include "policy/places.h"

struct label label_initial(void)
{
    return (struct label){.class = LABEL_OPEN, .lineage = LINEAGE_UNKNOWN};
}

/* Inserts `text` into a sorted list, unless the list has it. */
static struct result insert(const char **list, size_t *count, size_t maximum, const char *text, struct error *err)
{
    size_t at = 0;

    while (at < *count && strcmp(list[at], text) < 0) at++;
    if (at < *count && strcmp(list[at], text) == 0) return SUCCESS;
    if (*count == maximum) return failure(err, ERROR_LIMIT, "a label with more than %zu regimes or pins", maximum);
    memmove(list + at + 1, list + at, (*count - at) * sizeof *list);
    list[at] = text;
    (*count)++;
    return SUCCESS;
}

struct result label_join(struct label *label, const struct label *other, struct error *err)
{
    if (other->class > label->class) label->class = other->class;
    if (other->lineage < label->lineage) label->lineage = other->lineage;
    label->subjects |= other->subjects;
    for (size_t i = 0; i < other->regime_count; i++)
        TRY(insert(label->regimes, &label->regime_count, LABEL_REGIMES_MAX, other->regimes[i], err));
    for (size_t i = 0; i < other->pin_count; i++)
        TRY(insert(label->pins, &label->pin_count, LABEL_PINS_MAX, other->pins[i], err));
    return SUCCESS;
}

static bool covers(const char *const *list, size_t count, const char *const *floor, size_t floor_count)
{
    for (size_t i = 0; i < floor_count; i++)
        if (bsearch(&floor[i], list, count, sizeof *list, compare_texts) == NULL) return false;
    return true;
}

bool label_restricts_as(const struct label *label, const struct label *other)
{
    return label->class >= other->class && (other->subjects & ~label->subjects) == 0 &&
           covers(label->regimes, label->regime_count, other->regimes, other->regime_count);
}

bool label_covers(const struct label *label, const struct label *floor)
{
    return label_restricts_as(label, floor) && label->lineage <= floor->lineage &&
           covers(label->pins, label->pin_count, floor->pins, floor->pin_count);
}

static struct result read_list(const json_t *array, const char **list, size_t *count, size_t maximum, struct error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        TRY(insert(list, count, maximum, json_string_value(json_array_get(array, i)), err));
    return SUCCESS;
}

/* Reads members that the shapes have checked. An absent member leaves `label` unchanged. */
static struct result read_members(const json_t *json, struct label *label, struct error *err)
{
    const char *class = json_text_of(json, "class"), *lineage = json_text_of(json, "lineage");

    if (class != NULL) label->class = (enum label_class)word_index(class_names, class);
    if (lineage != NULL) label->lineage = (enum label_lineage)word_index(lineage_names, lineage);
    label->subjects |= compile_words(json_object_get(json, "subjects"), subject_names);
    TRY(read_list(json_object_get(json, "attached"), label->regimes, &label->regime_count, LABEL_REGIMES_MAX, err));
    return read_list(json_object_get(json, "pins"), label->pins, &label->pin_count, LABEL_PINS_MAX, err);
}

struct result label_read_floor(const json_t *floor, struct label *label_out, bool *is_stated_out, struct error *err)
{
    struct label label = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};

    TRY(shape_check(&shape_floor_label, floor, "label", err));
    TRY(read_members(floor, &label, err));
    *label_out = label;
    *is_stated_out = json_object_size(floor) > 0;
    return SUCCESS;
}

struct result label_read_asked(const json_t *floor, struct arena *arena, struct asked_label **asked_out, struct error *err)
{
    struct asked_label *asked = arena_take(arena, sizeof *asked);

    if (asked == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a label");
    *asked = (struct asked_label){.has_lineage = json_object_get(floor, "lineage") != NULL};
    TRY(label_read_floor(floor, &asked->label, &asked->is_stated, err)); /* a floor has no pins */
    for (size_t i = 0; i < asked->label.regime_count; i++) {
        if (!regime_is_known(asked->label.regimes[i]))
            return failure(err, ERROR_INVALID,
                           "label.attached: %.24s is no known regime (docs/policies.md); one of your own begins with X-",
                           asked->label.regimes[i]);
        asked->label.regimes[i] = arena_copy_text(arena, bytes_of_text(asked->label.regimes[i]));
        if (asked->label.regimes[i] == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a label");
    }
    *asked_out = asked;
    return SUCCESS;
}

struct result label_read(const json_t *json, struct label *label_out, struct error *err)
{
    struct label label = {.class = LABEL_OPEN};

    TRY(shape_check(&shape_label, json, "label", err));
    TRY(read_members(json, &label, err));
    *label_out = label;
    return SUCCESS;
}

static struct result write_list(struct buffer *buffer, const char *name, const char *const *texts, size_t count,
                                struct error *err)
{
    TRY(buffer_format(buffer, err, "\"%s\":[", name));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) TRY(buffer_add_u8(buffer, ',', err));
        TRY(json_write_string(buffer, bytes_of_text(texts[i]), err));
    }
    return buffer_add_text(buffer, "],", err);
}

struct result label_write(struct buffer *buffer, const struct label *label, struct error *err)
{
    const char *subjects[LABEL_SUBJECT_COUNT]; /* one element for each bit */
    size_t count = 0;

    for (unsigned i = 0; i < LABEL_SUBJECT_COUNT; i++)
        if ((label->subjects >> i & 1) != 0) subjects[count++] = subject_names[i];
    /* cppcheck-suppress uninitvar ; as many as the loop above has set */
    qsort(subjects, count, sizeof *subjects, compare_texts);

    TRY(buffer_add_u8(buffer, '{', err));
    TRY(write_list(buffer, "attached", label->regimes, label->regime_count, err));
    TRY(buffer_format(buffer, err, "\"class\":\"%s\",\"lineage\":\"%s\",", class_names[label->class],
                      lineage_names[label->lineage]));
    TRY(write_list(buffer, "pins", label->pins, label->pin_count, err));
    TRY(write_list(buffer, "subjects", subjects, count, err));
    buffer->data[buffer->length - 1] = '}'; /* over the last comma */
    return SUCCESS;
}
