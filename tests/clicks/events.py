"""UBI events as lines of JSON."""

import json


def event(action, query="1", document="a", ordinal=1, team=None, **more):
    attributes = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
    if team is not None:
        attributes["search_config"] = team
    return {"action_name": action, "query_id": query, "event_attributes": attributes, **more}


def write(path, entries):
    path.write_text("".join(json.dumps(e) + "\n" for e in entries))
    return path
