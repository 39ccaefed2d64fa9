/* Numbers of classes of names: the log has many names, and few kinds of them. */
#include "base/json.h"
#include "base/memory.h"
#include "planning/plan_priv.h"

#define NAMES_MAX   65536
#define CLASSES_MAX 16384
#define CLASS_TEXT  ((size_t)64 * 1024) /* two labels, and a digit for each policy of two sets */

struct plan_classes {
    const struct planning *planning;
    json_t *of_names, *of_texts; /* name, or text of a class -> number of the class, from 1 */
};

struct result plan_classes_new(const struct planning *planning, struct plan_classes **classes_out, struct error *err)
{
    OWNED(plan_classes) *classes = memory_zeroed(1, sizeof *classes);

    if (classes == NULL) return planning_no_memory(err);
    *classes = (struct plan_classes){planning, json_object(), json_object()};
    if (classes->of_names == NULL || classes->of_texts == NULL) return planning_no_memory(err);
    *classes_out = GIVE(classes);
    return SUCCESS;
}

void plan_classes_free(struct plan_classes *classes)
{
    if (classes == NULL) return;
    json_decref(classes->of_names);
    json_decref(classes->of_texts);
    free(classes);
}

/* Once there are too many, a new one has no number. */
static struct result number_of_text(struct plan_classes *classes, const char *text, json_t **number_out, struct error *err)
{
    json_t *number = json_object_get(classes->of_texts, text);
    const size_t count = json_object_size(classes->of_texts);

    if (number == NULL) {
        number = json_integer(count < CLASSES_MAX ? (json_int_t)count + 1 : 0);
        if (number == NULL || (count < CLASSES_MAX && json_object_set(classes->of_texts, text, number) != 0)) {
            json_decref(number);
            return planning_no_memory(err);
        }
    } else (void)json_incref(number);
    *number_out = number;
    return SUCCESS;
}

struct result plan_classes_find(struct plan_classes *classes, const char *name, unsigned *class_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CLASS_TEXT);
    OWNED_JSON number = json_incref(json_object_get(classes->of_names, name));

    if (number == NULL) {
        TRY(policy_plan_class(classes->planning->plan, name, &text, err));
        TRY(number_of_text(classes, buffer_text(&text), &number, err));
        if (json_object_size(classes->of_names) < NAMES_MAX && json_object_set(classes->of_names, name, number) != 0)
            return planning_no_memory(err);
    }
    *class_out = (unsigned)json_integer_value(number);
    return SUCCESS;
}
