"""Small pieces that every page uses."""

import re

import pandas as pd
import streamlit as st

from dashboard.filters import LABELS
