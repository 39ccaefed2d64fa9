/* Why a decision is none, noted once for each rule of each policy. */
#include <stdio.h>
#include <string.h>

#include "policy/judge_priv.h"

static void worsen(struct making *making, enum verdict verdict)
{
    if (verdict > making->parts.verdict) making->parts.verdict = verdict;
}

/* As much as fits, never half a letter of UTF-8. */
static void copy_text(char *place, size_t size, const char *text)
{
    size_t length = strlen(text);

    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80) length--;
    }
    memcpy(place, text, length);
    place[length] = '\0';
}

static bool is_noted(const struct making *making, const char *rule, const char *policy)
{
    for (size_t i = 0; i < making->parts.denial_count; i++)
        if (strcmp(making->parts.denials[i].rule, rule) == 0 && strcmp(making->parts.denials[i].policy, policy) == 0)
            return true;
    return false;
}

/* The next place for a denial; NULL if it is there already, or if there are enough. */
static struct denial *note(struct making *making, const char *rule, const char *policy, const char *message)
{
    if (making->parts.denial_count == DENIALS_MAX || is_noted(making, rule, policy)) return NULL;
    struct denial *denial = &making->parts.denials[making->parts.denial_count++];
    copy_text(denial->rule, sizeof denial->rule, rule);
    copy_text(denial->policy, sizeof denial->policy, policy);
    copy_text(denial->message, sizeof denial->message, message);
    return denial;
}

void refuse(struct making *making, enum verdict verdict, const char *rule, const char *message)
{
    worsen(making, verdict);
    pair_facts_refuse(&making->stated, rule);
    (void)note(making, rule, "sys", message);
}

/* Whole names only. */
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
        return "What is here was stored under a policy that is not in force any more; a set that has the policy again,"
               " or that declassifies it here, is the way out.";
    return denial->message[0] != '\0' ? denial->message
                                      : "This policy asks for what is not so, or not proven, here.";
}

void note_denial(struct making *making, const struct policy_denial *denial)
{
    struct denial *noted = note(making, denial->rule, denial->policy, message_of(denial));

    worsen(making, VERDICT_DENY);
    if (noted == NULL) return;
    add_names(noted->missing, sizeof noted->missing, denial->unknown, denial->unknown_count);
    add_names(noted->failed, sizeof noted->failed, denial->failed, denial->failed_count);
}
