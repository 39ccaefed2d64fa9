/*
 * policy/decider/explain.h -- why a principal may do something, or may not (docs/identity.md, "Decisions explained").
 *
 * It makes the decision with the code that decides requests, on the same snapshot, and says what that code saw. An explanation permits nothing:
 * the decision does not leave these functions. Rule: the permit is for authz.explain on the thing in question, or, if the caller asks about
 * itself, for authz.ask; what is explained to it then is what the refusal and `whoami` would say.
 */
#pragma once

#include "audit/permit.h"
#include "authz/token_scope.h"
#include "base/json.h"
#include "policy/decider/decider.h"

/** For a moment in the past: where its rows are. */
struct explain_past {
    struct pg *pg; /* with rights_table and policy_set_table */
    struct keyd_client *keyd;
};

struct explain_question {
    const struct principal *asker; /* of the permit */
    bool is_own;                   /* about the asker itself; then `thing` counts, else the resource of the permit */
    struct resource thing;         /* kind, name and detail; and where the runner is, if anybody says so */
    const char *robot;             /* the name of a robot; NULL: it is a subject */
    const char *issuer, *subject;  /* of a subject; TRUST_ISSUER for a trust rule */
    enum action action;
    const struct token_scope *scope; /* of the token that it would bring; NULL: it has no bounds */
    struct policy_client client;     /* where from */
    int64_t now_ms;                  /* the moment */
    const struct explain_past *past; /* NULL: rights and policies are those of now; else of that moment, as far as rows tell */
};

/** The answer of POST /api/v1/authz/explain, without the parts that only the caller's clock knows. ERROR_NOT_FOUND: there is no such robot that the
 *  asker may know of. ERROR_UNAVAILABLE while rights and policies are not known. ERROR_CONFLICT: the policies of then can't be read. */
RESULT decider_explain(const struct permit *permit, struct decider *decider, const struct explain_question *question,
                       json_t **answer_out, struct error *err) __attribute__((nonnull));
/**
 * Whether what the organisation of the thing demands of tokens may stop the request (authz/token_demand.h): about the asker, by the token that it has now; about others, if it
 * demands anything. Only for an answer that allows it: else this would tell of things that the asker may not know.
 */
bool decider_explain_token(const struct permit *permit, struct decider *decider, const struct explain_question *question)
    __attribute__((nonnull));
