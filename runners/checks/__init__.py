"""What can keep a study from running here: one module a subject, one ``check(situation)`` each."""
