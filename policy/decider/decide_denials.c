/* Collects the denials of a decision: each rule of each policy once. */
#include <stdio.h>
#include <string.h>

#include "policy/decider/decide_priv.h"

static void worsen(struct decision_draft *draft, enum verdict verdict)
{
    if (verdict > draft->parts.verdict) draft->parts.verdict = verdict;
}

/* Truncates to `size`, never within a character of UTF-8. */
static void copy_text(char *destination, size_t size, const char *text)
{
    size_t length = strlen(text);

    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80) length--;
    }
    memcpy(destination, text, length);
    destination[length] = '\0';
}

static bool is_noted(const struct decision_draft *draft, const char *rule, const char *policy)
{
    for (size_t i = 0; i < draft->parts.denial_count; i++)
        if (strcmp(draft->parts.denials[i].rule, rule) == 0 && strcmp(draft->parts.denials[i].policy, policy) == 0) return true;
    return false;
}

/* Adds a denial; NULL if it is noted already, or if the list is full. */
static struct denial *note(struct decision_draft *draft, const char *rule, const char *policy, const char *message)
{
    if (draft->parts.denial_count == DENIALS_MAX || is_noted(draft, rule, policy)) return NULL;
    struct denial *denial = &draft->parts.denials[draft->parts.denial_count++];
    copy_text(denial->rule, sizeof denial->rule, rule);
    copy_text(denial->policy, sizeof denial->policy, policy);
    copy_text(denial->message, sizeof denial->message, message);
    return denial;
}

void refuse(struct decision_draft *draft, enum verdict verdict, const char *rule, const char *message)
{
    worsen(draft, verdict);
    pair_facts_refuse(&draft->stated, rule);
    (void)note(draft, rule, "sys", message);
}

/* Appends names as long as whole names fit. */
static void add_names(char *text, size_t size, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(text), wanted = strlen(names[i]) + (length > 0 ? 2 : 0);
        if (length + wanted >= size) return;
        (void)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", names[i]);
    }
}

static const char *message_of(const struct policy_denial *denial)
{
    if (strcmp(denial->rule, "SYS-PIN-MISSING") == 0)
        return "This content was stored under a policy that is not in force any more: load a set that has the policy again, or "
               "that declassifies the content.";
    return denial->message[0] != '\0' ? denial->message : "This policy demands a fact that is false, or not proven, here.";
}

void note_denial(struct decision_draft *draft, const struct policy_denial *denial)
{
    struct denial *noted = note(draft, denial->rule, denial->policy, message_of(denial));

    worsen(draft, VERDICT_DENY);
    if (noted == NULL) return;
    add_names(noted->missing, sizeof noted->missing, denial->unknown, denial->unknown_count);
    add_names(noted->failed, sizeof noted->failed, denial->failed, denial->failed_count);
}
